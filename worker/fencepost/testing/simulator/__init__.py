"""The product's own bridge and pool in a world made of one seed.

Time is virtual, chance is one generator, and the edges are fakes: sources, the broker, the
handler's effects. A seed chooses what goes wrong and when. An oracle that knows the truth looks at
the end whether anything was done twice or lost without a word.
"""
