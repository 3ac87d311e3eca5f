"""What every vector service is: routes, generations, documents in, searches out, over an encoder and a store."""
