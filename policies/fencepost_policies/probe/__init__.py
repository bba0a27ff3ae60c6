"""What the answers of somebody's server mean: could a break of its stream ever be proven?"""
