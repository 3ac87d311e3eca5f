"""The one address that apps talk to: walks a pipeline over HTTP and answers with ranked documents."""
