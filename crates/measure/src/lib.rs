//! Samples, histograms, paired ratios with confidence, noise checks, host facts, the results file.
