"""A text before it is asked what it means: forms, layout, sentences, quotations, words of one meaning."""
