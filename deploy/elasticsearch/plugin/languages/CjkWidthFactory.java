package retrievalstack.languages;

import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.cjk.CJKWidthFilter;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenFilterFactory;

/** The filter "cjk_width", as on a full distribution. */
@NamedComponent("cjk_width")
public final class CjkWidthFactory implements TokenFilterFactory {
    @Override
    public TokenStream create(TokenStream input) {
        return new CJKWidthFilter(input);
    }
}
