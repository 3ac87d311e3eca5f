package retrievalstack.languages;

import java.util.List;
import org.elasticsearch.plugin.settings.AnalysisSettings;
import org.elasticsearch.plugin.settings.ListSetting;

/** The setting of the filter "elision" that we use: the articles, in lower case. */
@AnalysisSettings
public interface ElisionSettings {
    @ListSetting(path = "articles")
    List<String> articles();
}
