"""Evidence to verdict. Positive evidence is required; the absence of a signal is not evidence."""

from fencepost_policies.witness import contradiction
from fencepost_schemas.evidence import Evidence, Facet, Fact, Finding
from fencepost_schemas.reason import Reason
from fencepost_schemas.standing import Standing
from fencepost_schemas.verdict import Verdict


def judge(evidence: Evidence) -> Verdict:
    """Return the verdict on one connection. The rules are tried in this order:

    1. a fresh genesis record: `genesis`; no cursor otherwise: `unverifiable`, and a bridge must
       not have come this far (a missing cursor is never a beginning); one that somebody had begin
       anew: `reoriginated`, whatever it looks like
    2. identity or position contradicted, an explicit reset included: `reoriginated`
    3. all three facets proven: `resumed`
    4. identity proven, completeness contradicted: `reoriginated`, with an exact gap
    5. otherwise: `unverifiable`
    """
    facts = evidence.facts
    if evidence.genesis:
        return Verdict(Standing.GENESIS, (Reason.FIRST_CONNECTION,), facts)
    if evidence.requested is None:
        return Verdict(Standing.UNVERIFIABLE, (Reason.NO_CURSOR,), facts)
    if evidence.requested.rebaselined:
        return Verdict(Standing.REORIGINATED, (Reason.REBASELINED,), facts)
    if contradiction(facts):
        against = tuple(
            fact
            for fact in facts
            if fact.finding is Finding.CONTRADICTS and fact.facet is not Facet.COMPLETENESS
        )
        return Verdict(Standing.REORIGINATED, _reasons(against), facts)
    proven = {fact.facet for fact in facts if fact.finding is Finding.PROVES}
    lost = tuple(fact for fact in facts if fact.finding is Finding.CONTRADICTS)
    if not lost and proven == set(Facet):
        proofs = tuple(fact for fact in facts if fact.finding is Finding.PROVES)
        return Verdict(Standing.RESUMED, _reasons(proofs), facts)
    if lost and Facet.IDENTITY in proven:
        return Verdict(Standing.REORIGINATED, _reasons(lost), facts)
    missing = tuple(
        fact for fact in facts if fact.finding is not Finding.PROVES and fact.facet not in proven
    )
    return Verdict(Standing.UNVERIFIABLE, _reasons(missing) or (Reason.NOTHING_SHOWN,), facts)


def _reasons(facts: tuple[Fact, ...]) -> tuple[Reason, ...]:
    """Return each reason once, in the order in which it was stated."""
    return tuple(dict.fromkeys(fact.reason for fact in facts))
