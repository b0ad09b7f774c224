"""What silences a rule of the lexicons though its pattern matches: words around it that change the sense."""
