"""The language pair of a Marian checkpoint, and the token that selects the target of a multilingual one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from training.errors import TrainingError

LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
NO_PREFIX = "none"
# ISO 639-5, as far as models are named for them, and what stands for several languages
_GROUP_CODES = """
mul art aav afa alv bat bnt cau ccs cel cpf cpp cpx cus dra euq fiu gem gmq gmw iir inc ine ira itc kqo map mkh nic phi
pqe pqw poz roa sal sem sit sla ssa taw trk tut urj wen xgn zle zls zlw
"""
LANGUAGE_GROUPS = frozenset(_GROUP_CODES.split())
# ISO 639-1 and the codes of ISO 639-3 that vocabularies have for it, the language itself before its standard variety
_THREE_LETTERS = """
af afr; am amh; an arg; ar ara arb; as asm; az aze azj; ba bak; be bel; bg bul; bn ben; bo bod; br bre; bs bos; ca
cat; ce che; co cos; cs ces; cv chv; cy cym; da dan; de deu; dv div; dz dzo; ee ewe; el ell; en eng; eo epo; es spa;
et est ekk; eu eus; fa fas pes; ff ful; fi fin; fj fij; fo fao; fr fra; fy fry; ga gle; gd gla; gl glg; gn grn gug;
gu guj; gv glv; ha hau; he heb; hi hin; hr hrv; ht hat; hu hun; hy hye; ia ina; id ind; ig ibo; io ido; is isl; it
ita; iu iku; ja jpn; jv jav; ka kat; kg kon; kk kaz; kl kal; km khm; kn kan; ko kor; ks kas; ku kur kmr; kv kom kpv;
kw cor; ky kir; la lat; lb ltz; lg lug; li lim; ln lin; lo lao; lt lit; lv lav lvs; mg mlg plt; mh mah; mi mri; mk
mkd; ml mal; mn mon khk; mr mar; ms msa zsm; mt mlt; my mya; nb nob; ne nep npi; nl nld; nn nno; no nor nob; nv nav;
ny nya; oc oci; om orm; or ori ory; os oss; pa pan; pl pol; ps pus pbt; pt por; qu que quy; rm roh; rn run; ro ron;
ru rus; rw kin; sa san; sc srd; sd snd; se sme; sg sag; si sin; sk slk; sl slv; sm smo; sn sna; so som; sq sqi als;
sr srp; st sot; su sun; sv swe; sw swa swh; ta tam; te tel; tg tgk; th tha; ti tir; tk tuk; tl tgl; tn tsn; to ton;
tr tur; ts tso; tt tat; ty tah; ug uig; uk ukr; ur urd; uz uzb uzn; vi vie; vo vol; wa wln; wo wol; xh xho; yi yid
ydd; yo yor; za zha; zh zho cmn; zu zul
"""
THREE_LETTERS = {
    names[0]: tuple(names[1:]) for names in (entry.split() for entry in _THREE_LETTERS.replace("\n", " ").split(";"))
}
TWO_LETTERS = {name: two for two, names in reversed(THREE_LETTERS.items()) for name in names}


class Languages(NamedTuple):
    """prefix: the token that stands before every source, None where there is none."""

    source: str
    target: str
    prefix: str | None


def choose_languages(
    source: str | None,
    target: str | None,
    prefix: str | None,
    options: Mapping[str, Any],
    config: Mapping[str, Any],
    tokens: Sequence[str],
) -> Languages:
    """source, target, prefix: as the user gave them. options, config: tokenizer_config.json and config.json, which may
    name languages. tokens: the language tokens of the vocabulary."""
    pair = {}
    for side, given in (("source", source), ("target", target)):
        code = given or _recorded(options.get(f"{side}_lang")) or _recorded(config.get(f"{side}_lang"))
        if code is None:
            raise TrainingError(f"The folder does not say which its {side} language is: give --{side}, such as de.")
        if not LANGUAGE_CODE.fullmatch(code) or code.lower() == "auto":
            raise TrainingError(f"--{side} must be a language code such as de or pt-BR, not {code!r}.")
        pair[side] = code
    return Languages(pair["source"], pair["target"], _prefix(prefix, pair["target"], tokens))


def _recorded(code: Any) -> str | None:
    """A folder's own code, in two letters where there are two, as clients ask for languages; None for a group of them,
    which nobody asks for."""
    if not isinstance(code, str) or len(code.split("_")[0]) > 3 or code in LANGUAGE_GROUPS:
        return None
    return TWO_LETTERS.get(code, code)


def _prefix(given: str | None, target: str, tokens: Sequence[str]) -> str | None:
    if given == NO_PREFIX or (given is None and not tokens):
        return None
    listed = ", ".join(tokens) or NO_PREFIX
    if given is not None:
        token = given if given.startswith(">>") else f">>{given}<<"
        if token not in tokens:
            raise TrainingError(f"The vocabulary holds no language token {token}; it holds {listed}.")
        return token
    found = matching_tokens(target, tokens)
    if len(found) == 1:
        return found[0]
    several = f"several language tokens for {target} ({', '.join(found)})" if found else "several target languages"
    raise TrainingError(
        f"This model has {several}: give another --target or a --prefix, or --prefix {NO_PREFIX} to leave the choice"
        f" to each text; its language tokens are {listed}."
    )


def matching_tokens(code: str, tokens: Sequence[str]) -> list[str]:
    """The language tokens that mean a language: as it is spelt, in three letters, or with any script or region."""
    first, *rest = re.split("[-_]", code.lower())
    names = [first, *THREE_LETTERS.get(first, ())]
    if first in TWO_LETTERS:
        names.append(TWO_LETTERS[first])
    plain = {token: token.strip("<>").lower().replace("-", "_") for token in tokens}
    for name in names:
        exact = [token for token, spelt in plain.items() if spelt == "_".join([name, *rest])]
        if exact:
            return exact
    if rest:
        return []
    return [token for token, spelt in plain.items() if spelt.split("_")[0] in names]
