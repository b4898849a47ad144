"""Language models: specs, clients, recordings, controls, embedders and servers."""
