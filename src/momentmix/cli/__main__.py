from momentmix.cli import main

main()
