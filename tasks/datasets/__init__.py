"""Public datasets: their catalogue, download, verification and local folders."""
