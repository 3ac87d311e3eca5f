package retrievalstack.languages;

import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.snowball.SnowballFilter;
import org.elasticsearch.plugin.Inject;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenFilterFactory;

/** The filter "snowball", as on a full distribution. */
@NamedComponent("snowball")
public final class SnowballFactory implements TokenFilterFactory {
    private final SnowballSettings settings;

    @Inject
    public SnowballFactory(SnowballSettings settings) {
        this.settings = settings;
    }

    @Override
    public TokenStream create(TokenStream input) {
        return new SnowballFilter(input, settings.language());
    }
}
