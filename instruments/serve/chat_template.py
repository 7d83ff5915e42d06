"""Renders chats with a model's own template, a program in Jinja, as Hugging Face's library does.

A child process of the server. A message, in both directions, is a line with a number of bytes and then so many bytes
of JSON. The first message sets up: {"templates": {"default": ".."}, "values": {"bos_token": ".."},
"special": ["<|im_start|>", ..]}. Each other one is the body of a request. An answer is {"pieces": [..]}, text of the
template and plain text in turn, or {"error": "..", "field": ".."}. In plain text a special token is text, no token.
"""

import datetime
import json
import random
import re
import resource
import signal
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.meta
    import jinja2.sandbox
    from jinja2 import nodes
except ImportError as missing:
    jinja2 = missing

MAX_BYTES = 4 << 30  # of memory
CONTINUE = "CONTINUE_FINAL_MESSAGE_TAG "  # as transformers has it, since templates may know it
USER = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
TRIALS = [  # what a template is tried with when the server starts: one of them must render
    {"messages": [USER]},
    {"messages": [{"role": "system", "content": USER["content"]}, USER]},
    {"messages": [{"role": "query", "content": USER["content"]}, {"role": "document", "content": USER["content"]}]},
    {"messages": [USER], "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
    {"messages": [USER], "documents": [{"title": "Hi", "text": "Hi"}]},
]


class Refused(Exception):
    """A request that cannot be rendered, with the field that is wrong."""

    def __init__(self, words, field="messages"):
        super().__init__(words)
        self.field = field


def words_of(error):
    """What an error says. One that a template has raised itself has its own words."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"line {error.lineno}: {error.message}"
    if type(error) in (jinja2.TemplateError, Refused):
        return str(error)
    return f"{type(error).__name__}: {error}"


def environment():
    """The environment of transformers' chat_template_utils."""

    class Generation(jinja2.ext.Extension):
        """{% generation %}, which marks an answer's text for a training and prints it."""

        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return nodes.CallBlock(self.call_method("print_it"), [], [], body).set_lineno(line)

        def print_it(self, caller):
            return caller()

    def raise_exception(message):
        raise jinja2.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return made


def is_item(node, name):
    """Whether an expression is x.name or x['name']."""
    if isinstance(node, nodes.Getattr):
        return node.attr == name
    return isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and node.arg.value == name


class Template:
    """A template, and what it reads of a chat, as its program shows."""

    def __init__(self, env, source):
        tree = env.parse(source)
        self.program = env.from_string(source)
        self.reads = jinja2.meta.find_undeclared_variables(tree)
        self.knows_developers = any(const.value == "developer" for const in tree.find_all(nodes.Const))
        names = {"content"}  # variables that are a message's content

        def is_content(node):
            while isinstance(node, nodes.Filter):
                node = node.node
            if isinstance(node, nodes.CondExpr):
                return is_content(node.expr1) or is_content(node.expr2)
            return is_item(node, "content") or (isinstance(node, nodes.Name) and node.name in names)

        for assign in tree.find_all(nodes.Assign):
            if is_content(assign.node) and isinstance(assign.target, nodes.Name):
                names.add(assign.target.name)
        parts = any(is_content(loop.iter) for loop in tree.find_all(nodes.For))
        text = not parts or any(
            is_content(test.node) and test.name in ("string", "iterable", "sequence", "mapping")
            for test in tree.find_all(nodes.Test)
        )
        self.takes = {"parts": parts, "text": text, "objects": True}

    def message(self, given, where, takes):
        """A message of the API as templates expect it; what vLLM does, too."""
        message = dict(given)
        content = message.get("content")
        if content is None:
            message["content"] = ""
        elif isinstance(content, list) and not takes["parts"]:
            message["content"] = "\n".join(part["text"] for part in content)
        elif isinstance(content, str) and not takes["text"]:
            message["content"] = [{"type": "text", "text": content}]
        if message.get("role") == "developer" and not self.knows_developers:
            message["role"] = "system"
        for name, other in (("reasoning", "reasoning_content"), ("reasoning_content", "reasoning")):
            if isinstance(message.get(name), str) and message.get(other) is None:
                message[other] = message[name]
        calls = enumerate(message.pop("tool_calls", None) or [])
        if made := [self.call(call, f"{where}.tool_calls[{i}]", takes) for i, call in calls]:
            message["tool_calls"] = made
        return message

    def call(self, call, where, takes):
        """A call of a tool. The API has its arguments as text, most templates want the object."""
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise Refused(f"{where}.function is missing, wanted an object")
        text = function.get("arguments") or "{}"
        text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise Refused(f"{where}.function.arguments is no object in JSON")
        return {**call, "function": {**function, "arguments": parsed if takes["objects"] else text}}


class Marker:
    """Puts marks around the text of special tokens in the texts of a chat, and around the beginning of one at the end
    of a text, so that what comes from the chat and what from the template differ."""

    def __init__(self, special):
        special = sorted(special, key=len, reverse=True)
        self.find = re.compile("|".join(map(re.escape, special)) or "(?!)")
        self.beginnings = {text[:n] for text in special for n in range(1, len(text))}
        self.longest = max(map(len, special), default=0)

    def text(self, value, mark):
        value = self.find.sub(lambda found: mark + found[0] + mark, value)
        for n in range(min(self.longest - 1, len(value)), 0, -1):
            if value[-n:] in self.beginnings:
                return value[:-n] + mark + value[-n:] + mark
        return value

    def chat(self, value, mark, skip=None):
        """`skip`: the role of messages that stay as they are."""
        if isinstance(value, str):
            return self.text(value, mark)
        if isinstance(value, list):
            return [self.chat(one, mark, skip) for one in value]
        if isinstance(value, dict):
            if skip is not None and value.get("role") == skip:
                return value
            return {self.text(k, mark): self.chat(v, mark, skip) for k, v in value.items()}
        return value


class Renderer:
    def __init__(self, setup):
        env = environment()
        self.values = setup["values"]
        self.marker = Marker(setup["special"])
        self.templates = {name: Template(env, source) for name, source in setup["templates"].items()}
        if "default" not in self.templates:
            raise Refused('it has several templates, and none is named "default"')
        failed = []
        for trial in TRIALS:
            template = self.template_of(trial)
            plain = {**template.takes, "parts": False, "text": True}
            try:
                pieces, takes = self.first(trial, template.takes, plain)
                if "".join(pieces).count("Hi") >= len(trial["messages"]):
                    template.takes = takes
            except Exception as error:
                failed.append(error)
        if len(failed) == len(TRIALS):
            raise failed[0]

    def template_of(self, body):
        return self.templates["tool_use" if body.get("tools") and "tool_use" in self.templates else "default"]

    def pieces(self, body):
        takes = self.template_of(body).takes
        return self.first(body, takes, {**takes, "objects": False})[0]

    def first(self, body, *ways):
        """The pieces and the way that renders, the first one of them. If none does, the first one's error."""
        errors = []
        for takes in ways:
            try:
                return self.rendered(body, takes), takes
            except Exception as error:  # a template is a program: anything can happen in it
                errors.append(error)
        raise errors[0]

    def rendered(self, body, takes):
        template = self.template_of(body)
        chat = {name: body.get(name) or None for name in ("tools", "documents")}
        chat["add_generation_prompt"] = body.get("add_generation_prompt", True) is not False
        if body.get("reasoning_effort") is not None:
            chat["reasoning_effort"] = body["reasoning_effort"]
        for name in ("tools", "documents", "reasoning_effort"):
            if chat.get(name) not in (None, "none") and name not in template.reads:
                raise Refused(f"the model's chat template does not read {name}; leave it out", name)
        chat["messages"] = [template.message(one, f"messages[{i}]", takes) for i, one in enumerate(body["messages"])]
        final = body.get("continue_final_message") is True
        if final:
            self.mark_end(chat["messages"][-1])
        chat.update(body.get("chat_template_kwargs") or {})

        def render(values):
            text = template.program.render(**{**self.values, **values})
            return self.cut_at_end(text) if final else text

        text = render(chat)
        mark = "\ufdd0" + "".join(map(chr, random.choices(range(0xFDD1, 0xFDF0), k=8)))  # no characters
        for skip in (None, "assistant"):
            values = self.marker.chat(chat, mark, skip)
            if values == chat:
                return [text]
            with_marks = render(values)
            if with_marks.replace(mark, "") == text:
                return with_marks.split(mark)
        raise Refused("messages have the text of special tokens, which the chat template reads; leave it out")

    @staticmethod
    def mark_end(message):
        content = message["content"]
        if isinstance(content, list) and content:
            message["content"] = [*content[:-1], {**content[-1], "text": content[-1]["text"] + CONTINUE}]
        else:
            message["content"] = content + CONTINUE

    @staticmethod
    def cut_at_end(text):
        at = text.rfind(CONTINUE.strip())
        if at < 0:
            raise Refused("the chat template does not print the last message, so that it cannot go on",
                          "continue_final_message")
        return text[:at] if text.startswith(CONTINUE, at) else text[:at].rstrip()


def read():
    line = sys.stdin.buffer.readline() or sys.exit()
    return json.loads(sys.stdin.buffer.read(int(line)))


def write(answer):
    # The server wants UTF-8: half a surrogate pair, which a template could cut out, is replaced.
    data = json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")
    sys.stdout.buffer.write(b"%d\n%s" % (len(data), data))
    sys.stdout.buffer.flush()


def answer_to(call):
    signal.alarm(60)  # the server waits for a much shorter time; this is for one that is no more
    try:
        return call()
    except Exception as error:
        return {"error": words_of(error), "field": getattr(error, "field", "messages")}


def main():
    setup = read()
    if isinstance(jinja2, ImportError):
        write({"error": str(jinja2), "field": "jinja2"})
        return
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    made = []
    write(answer_to(lambda: made.append(Renderer(setup)) or {"pieces": []}))
    while made:
        signal.alarm(0)
        body = read()
        write(answer_to(lambda body=body: {"pieces": made[0].pieces(body)}))


if __name__ == "__main__":
    main()
