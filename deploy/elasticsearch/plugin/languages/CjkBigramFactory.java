package retrievalstack.languages;

import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.cjk.CJKBigramFilter;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenFilterFactory;

/** The filter "cjk_bigram", with the defaults of a full distribution: every script, no single characters beside. */
@NamedComponent("cjk_bigram")
public final class CjkBigramFactory implements TokenFilterFactory {
    @Override
    public TokenStream create(TokenStream input) {
        return new CJKBigramFilter(input);
    }
}
