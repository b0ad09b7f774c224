"""Reads typed values, facts, yes and no, and abstentions out of answers in Chinese and English."""
