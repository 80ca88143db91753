"""Files: written whole or not at all, arrays and models in them, tables of rows."""
