"""``python -m momentmix`` is the command ``momentmix``."""

from momentmix.cli import main

main()
