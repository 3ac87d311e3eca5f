"""What texts and vectors on an Elasticsearch share: clients, errors, the indices of generations, bulk writes."""
