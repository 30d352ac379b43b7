from honcho_actors.cli import main

if __name__ == "__main__":
    main()
