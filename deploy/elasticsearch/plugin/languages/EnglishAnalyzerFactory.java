package retrievalstack.languages;

import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.en.EnglishAnalyzer;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.AnalyzerFactory;

/**
 * Gives the distribution without optional modules the analyzer that a full one calls "english": Lucene's own, with
 * its default stop words and no stem exclusions, so that one mapping means the same on both.
 */
@NamedComponent("english")
public final class EnglishAnalyzerFactory implements AnalyzerFactory {
    @Override
    public Analyzer create() {
        return new EnglishAnalyzer();
    }
}
