"""Ask somebody's server, rightly and wrongly, within bounds; what it means is decided elsewhere."""
