package retrievalstack.security;

import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.miscellaneous.RemoveDuplicatesTokenFilter;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenFilterFactory;

/** The last filter of the same field (EmailPatternFactory); it removes repetitions at one position only. */
@NamedComponent("unique")
public final class UniqueFactory implements TokenFilterFactory {
    @Override
    public TokenStream create(TokenStream input) {
        return new RemoveDuplicatesTokenFilter(input);
    }
}
