"""What every store shares: generations, whose build they are, the order of writes, fields, ties, the files of Edge."""
