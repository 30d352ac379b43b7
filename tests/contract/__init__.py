"""One contract, held against every server that claims it: recordings of three Honcho versions, `local`, any URL."""
