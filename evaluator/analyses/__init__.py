"""The tables and figures of the BEIR paper (Thakur et al. 2021, arXiv 2104.08663), made from the files of any runs."""
