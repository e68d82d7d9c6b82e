//! What was seen: counters and histograms of one thread, mergeable without loss.
