"""Reading of Chinese and English text."""
