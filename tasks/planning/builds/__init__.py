"""Plans, reports and output folders of dataset builds."""
