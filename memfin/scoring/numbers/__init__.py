"""Numbers as financial prose writes them, in Chinese and in English, in digits and in words."""
