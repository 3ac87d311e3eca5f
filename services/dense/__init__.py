"""The dense service: documents as vectors of one model, found again by nearness of meaning."""
