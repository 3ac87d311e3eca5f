package retrievalstack.languages;

import org.apache.lucene.analysis.CharArraySet;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.util.ElisionFilter;
import org.elasticsearch.plugin.Inject;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenFilterFactory;

/** The filter "elision", as on a full distribution. */
@NamedComponent("elision")
public final class ElisionFactory implements TokenFilterFactory {
    private final ElisionSettings settings;

    @Inject
    public ElisionFactory(ElisionSettings settings) {
        this.settings = settings;
    }

    @Override
    public TokenStream create(TokenStream input) {
        return new ElisionFilter(input, new CharArraySet(settings.articles(), false));
    }
}
