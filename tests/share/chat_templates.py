"""Chat templates in the forms of well-known models, written for these tests."""

from __future__ import annotations

EACH = "{% for message in messages %}"
OPEN = "{% if add_generation_prompt %}"
ROLE, CONTENT = "message['role']", "message['content']"

CHATML = (
    f"{EACH}{{{{ '<|im_start|>' + {ROLE} + '\n' + {CONTENT} + '<|im_end|>' + '\n' }}}}{{% endfor %}}"
    f"{OPEN}{{{{ '<|im_start|>assistant\n' }}}}{{% endif %}}"
)
CHATML_WITH_DEFAULT = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}{{- tools | tojson }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' ~ messages[0].content ~ '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {{- tool_answer(message) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
LINES = """\
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] in ['system', 'assistant'] %}
{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""
ENDED = (
    f"{EACH}{{{{ '<|' + {ROLE} + '|>\n' + {CONTENT} + '<|end|>\n' }}}}{{% endfor %}}"
    f"{OPEN}{{{{ '<|assistant|>\n' }}}}{{% else %}}{{{{ eos_token }}}}{{% endif %}}"
)
TURNS = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system messages') }}{% endif %}"
    f"{EACH}{{% if ({ROLE} == 'user') != (loop.index0 % 2 == 0) %}}{{{{ raise_exception('they alternate') }}}}"
    "{% endif %}"
    f"{{% if {ROLE} == 'assistant' %}}{{% set role = 'model' %}}{{% else %}}{{% set role = {ROLE} %}}{{% endif %}}"
    f"{{{{ '<start_of_turn>' + role + '\n' + {CONTENT} | trim + '<end_of_turn>\n' }}}}{{% endfor %}}"
    f"{OPEN}{{{{ '<start_of_turn>model\n' }}}}{{% endif %}}"
)
HEADERS = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    f"{{% set content = '<|start_header_id|>' + {ROLE} + '<|end_header_id|>\n\n' + {CONTENT} | trim + '<|eot_id|>' %}}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    f"{OPEN}{{{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}}}{{% endif %}}"
)
INSTRUCTIONS = (
    "{{ bos_token }}{% set ns = namespace(turns=0) %}"
    f"{EACH}{{% if {ROLE} == 'user' %}}{{% set ns.turns = ns.turns + 1 %}}{{{{ '[INST] ' + {CONTENT} + ' [/INST]' }}}}"
    f"{{% elif {ROLE} == 'assistant' %}}{{{{ {CONTENT} + eos_token + ' ' }}}}"
    "{% else %}{{ raise_exception('only user and assistant') }}{% endif %}{% endfor %}"
)
TEMPLATES = {
    "ChatML": CHATML, "ChatML with a default": CHATML_WITH_DEFAULT, "lines": LINES, "ended": ENDED, "turns": TURNS,
    "headers": HEADERS, "instructions": INSTRUCTIONS,
}  # fmt: skip
MARKS = (
    "<|im_start|>", "<|im_end|>", "<|user|>", "<|system|>", "<|assistant|>", "<|end|>", "<start_of_turn>",
    "<end_of_turn>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "[INST]", "[/INST]",
)  # fmt: skip
