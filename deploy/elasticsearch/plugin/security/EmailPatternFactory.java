package retrievalstack.security;

import java.util.regex.Pattern;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.pattern.PatternCaptureGroupTokenFilter;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenFilterFactory;

/**
 * The index in which Elasticsearch keeps API keys has a field for e-mail addresses, whose filter is of the type
 * "pattern_capture"; the distribution without optional modules cannot create that index for want of it. These are the
 * patterns that the index asks for; no other index should use this filter.
 */
@NamedComponent("pattern_capture")
public final class EmailPatternFactory implements TokenFilterFactory {
    private static final Pattern[] PATTERNS = {
        Pattern.compile("([^@]+)"), Pattern.compile("(\\p{L}+)"), Pattern.compile("(\\d+)"), Pattern.compile("@(.+)")
    };

    @Override
    public TokenStream create(TokenStream input) {
        return new PatternCaptureGroupTokenFilter(input, true, PATTERNS);
    }
}
