package retrievalstack.languages;

import org.elasticsearch.plugin.settings.AnalysisSettings;
import org.elasticsearch.plugin.settings.StringSetting;

/** The setting of the filter "snowball": the name of Lucene's stemmer. */
@AnalysisSettings
public interface SnowballSettings {
    @StringSetting(path = "language", defaultValue = "English")
    String language();
}
