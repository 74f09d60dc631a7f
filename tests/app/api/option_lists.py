"""The options of five programs and LibreTranslate as they may come in a request: every name, with a value that is not
its neutral one. `tests/clients/test_option_lists.py` compares the lists with the installed packages. Of vLLM, which is
not installed: vllm/entrypoints/openai/completion/protocol.py and vllm/sampling_params.py of 0.33, and the names that
0.4 to 0.10 had."""

from __future__ import annotations

import json
from collections.abc import Mapping

_OF_COMPLETIONS = """
    model="x" prompt="雨" best_of=2 echo=true frequency_penalty=0.5 logit_bias={"5":1} logprobs=2 max_tokens=5 n=2
    presence_penalty=0.5 seed=7 stop="x" stream=true stream_options={"include_usage":true} suffix="x" temperature=0.5
    top_p=0.5 user="x"
"""
_OF_VLLM = """
    use_beam_search=true top_k=3 min_p=0.1 repetition_penalty=1.2 watermarking=true length_penalty=0.5
    stop_token_ids=[3] include_stop_str_in_output=true ignore_eos=true min_tokens=5 skip_special_tokens=false
    spaces_between_special_tokens=false truncate_prompt_tokens=3 truncation_side="left" allowed_token_ids=[3]
    prompt_logprobs=1 logprob_token_ids=[3] bad_words=["x"] prompt_embeds="x" add_special_tokens=false
    response_format={"type":"json_object"} structured_outputs={"choice":["a"]} priority=1 request_id="x" session_id="x"
    return_tokens_as_token_ids=true return_token_ids=true routed_experts_prompt_start=1 return_token_offsets=true
    return_mm_kwargs=false cache_salt="x" kv_transfer_params={"a":1} ec_transfer_params={"a":1} vllm_xargs={"a":1}
    repetition_detection={"max_pattern_size":3} thinking_token_budget=3 stream_interval=3 prompt_logprob_token_ids=[3]
    prompt_logprob_start=1 flat_logprobs=true detokenize=false output_kind=1 skip_clone=true
    output_text_buffer_length=1 extra_args={"a":1} skip_reading_prefix_cache=true trace_decode_token_ids=[3]
    guided_json={"a":1} guided_regex="x" guided_choice=["a"] guided_grammar="x" structural_tag="x"
    guided_decoding_backend="x" guided_whitespace_pattern="x" logits_processors=["x"] early_stopping=true
"""
_OF_CTRANSLATE2 = """
    source="de" target_prefix=["x"] start_tokens=["x"] prompt="雨" max_batch_size=3 batch_type="tokens"
    asynchronous=true beam_size=3 patience=2 num_hypotheses=3 length_penalty=0.5 coverage_penalty=0.5
    repetition_penalty=1.2 no_repeat_ngram_size=3 disable_unk=true suppress_sequences=[["x"]] end_token="x"
    return_end_token=true prefix_bias_beta=0.5 max_input_length=5 max_decoding_length=5 min_decoding_length=5
    use_vmap=true return_scores=true return_logits_vocab=true return_attention=true return_alternatives=true
    min_alternative_expansion_prob=0.5 sampling_topk=3 sampling_topp=0.5 sampling_temperature=0.5
    replace_unknowns=true callback="x" max_length=5 min_length=5 static_prompt=["x"] cache_static_prompt=false
    include_prompt_in_result=true return_log_prob=true with_scores=true
"""
_OF_TRANSFORMERS = """
    assistant_confidence_threshold=0.5 assistant_early_exit=3 assistant_ensemble_weight=0.5 assistant_lookbehind=3
    bad_words_ids=[[3]] begin_suppress_tokens=[3] bos_token_id=3 cache_config={"a":1} cache_implementation="static"
    compile_config={"a":1} constraints=[3] continuous_batching_config={"a":1} decoder_start_token_id=3
    disable_compile=true diversity_penalty=0.5 do_sample="wrong" dola_layers="high" early_stopping=true
    encoder_no_repeat_ngram_size=3 encoder_repetition_penalty=1.2 eos_token_id=3 epsilon_cutoff=0.5 eta_cutoff=0.5
    exponential_decay_length_penalty=[3,1.5] force_words_ids=[[3]] forced_bos_token_id=3 forced_eos_token_id=3
    guidance_scale=2 is_assistant=true length_penalty=0.5 low_memory=true max_cache_len=5 max_length=5
    max_matching_ngram_size=3 max_new_tokens=5 max_time=5 min_length=5 min_new_tokens=5 min_p=0.1
    no_repeat_ngram_size=3 num_assistant_tokens=3 num_assistant_tokens_schedule="constant" num_beam_groups=2 num_beams=3
    num_return_sequences=3 output_attentions=true output_hidden_states=true output_logits=true output_scores=true
    pad_token_id=3 penalty_alpha=0.5 prefill_chunk_size=3 prompt_lookup_num_tokens=3 remove_invalid_values=true
    renormalize_logits=true repetition_penalty=1.2 return_dict_in_generate=true sequence_bias={"3":1}
    speculation_type="x" stop_strings=["x"] suppress_tokens=[3] target_lookbehind=3 temperature=0.5 token_healing=true
    top_h=0.5 top_k=3 top_p=0.5 transformers_version="x" typical_p=0.5 use_cache=false use_mtp=true
    watermarking_config={"a":1} inputs="x" inputs_embeds=[3] generation_config={"a":1} logits_processor=["x"]
    stopping_criteria=["x"] prefix_allowed_tokens_fn="x" synced_gpus=true assistant_model="x" streamer="x"
    negative_prompt_ids=[3] negative_prompt_attention_mask=[1] custom_generate="x"
"""
_OF_DEEPL = """
    text="x" source_lang="de" target_lang="en" context="x" split_sentences="0" preserve_formatting="1"
    formality="less" glossary_id="x" glossary_ids="x" tag_handling="xml" tag_handling_version="v1"
    outline_detection="0" non_splitting_tags="x" splitting_tags="x" ignore_tags="x" model_type="latency_optimized"
    style_id="x" translation_memory_id="x" translation_memory_threshold=80 custom_instructions=["x"]
    show_billed_characters="0" filename="a.txt" output_format="pdf" enable_beta_languages="1" auth_key="x" file="x"
    writing_style="casual" tone="friendly"
"""
_OF_LIBRETRANSLATE = """
    q="x" source="de" target="en" format="html" alternatives=2 api_key="x" secret="x" file="x" s="x"
"""


def _options(names: str) -> Mapping[str, object]:
    parted = (entry.partition("=") for entry in names.split())
    return {name: json.loads(value) for name, _, value in parted}


PROGRAMS: Mapping[str, Mapping[str, object]] = {
    "OpenAI": _options(_OF_COMPLETIONS),
    "vLLM": _options(_OF_COMPLETIONS + _OF_VLLM),
    "CTranslate2": _options(_OF_CTRANSLATE2),
    "transformers": _options(_OF_TRANSFORMERS),
    "DeepL": _options(_OF_DEEPL),
    "LibreTranslate": _options(_OF_LIBRETRANSLATE),
}

# Why an option that a route ignores cannot change its answer.
HARMLESS: Mapping[str, str] = {
    "only how fast or in how much memory the same text is found": (
        "max_batch_size batch_type cache_static_prompt assistant_confidence_threshold assistant_early_exit"
        " assistant_ensemble_weight assistant_lookbehind assistant_model is_assistant num_assistant_tokens"
        " num_assistant_tokens_schedule prompt_lookup_num_tokens max_matching_ngram_size target_lookbehind"
        " speculation_type use_mtp cache_config cache_implementation compile_config continuous_batching_config"
        " disable_compile low_memory max_cache_len prefill_chunk_size use_cache synced_gpus skip_reading_prefix_cache"
        " skip_clone guided_decoding_backend"
    ),
    "only which names, places and keys the request has in its own program": (
        "user request_id session_id priority cache_salt kv_transfer_params ec_transfer_params transformers_version"
        " api_key auth_key secret filename"
    ),
    "only how the same answer is cut or wrapped": (
        "stream_interval output_kind output_text_buffer_length flat_logprobs return_dict_in_generate"
        " return_token_offsets return_mm_kwargs routed_experts_prompt_start show_billed_characters"
    ),
    "of things that no model here has: experts, thoughts, special tokens in texts, beta languages": (
        "thinking_token_budget spaces_between_special_tokens enable_beta_languages"
    ),
    "what it asks for is so anyway, or no model here reads it": (
        "disable_unk remove_invalid_values preserve_formatting tag_handling_version model_type context seed"
    ),
    "of an option that is refused": "truncation_side",
    "a text or language, of which the route reads its own fields alone": (
        "q text inputs prompt start_tokens s source target source_lang target_lang file"
    ),
}
