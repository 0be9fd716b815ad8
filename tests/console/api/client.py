"""The client that was generated from the description: one function per operation."""

import importlib
import inspect
import json
import pkgutil
import typing

PACKAGE = "streamfleet_api"


class Answer:
    """What the console answered, as bytes, as JSON if it is JSON, and as the generated client read it."""

    def __init__(self, found):
        self.status = int(found.status_code)
        self.content = found.content
        self.parsed = found.parsed
        self.headers = {name.lower(): value for name, value in found.headers.items()}
        self.media_type = self.headers.get("content-type", "").split(";")[0]
        self.json = json.loads(found.content) if self.media_type.endswith("json") and found.content else None


class Api:
    """Calls operations by method and path. Notes what they answered other than described."""

    def __init__(self, document, url, token):
        self.document, self.complaints = document, []
        package = importlib.import_module(PACKAGE)
        self.client = package.AuthenticatedClient(base_url=url, token=token) if token else package.Client(base_url=url)
        self.functions = dict(functions(package))

    def call(self, method, path, *, body=None, **parameters):
        """Calls the function that was generated for an operation. Parameters have the names of the description."""
        operation = self.document.content["paths"][path][method]
        name = operation["operationId"]
        function = self.functions[name]
        taken = inspect.signature(function).parameters
        given = {}
        for known, value in parameters.items():
            # A name that Python has already gets an underscore.
            known = known if known in taken else f"{known}_"
            given[known] = fitting(taken[known].annotation, value)
        if body is not None:
            given["body"] = model(taken["body"].annotation).from_dict(body)
        answer = Answer(function(client=self.client, **given))
        self._compare(method, path, answer)
        return answer

    def _compare(self, method, path, answer):
        if answer.json is None:
            return
        self.complaints += self.document.unfaithful(method, path, answer.status, answer.media_type, answer.json)
        if answer.status < 300 and answer.parsed is None:
            self.complaints.append(f"{method.upper()} {path}: the generated client cannot read its answer: {answer.content[:200]!r}")


def functions(package):
    """Yields the name and the function of every generated operation."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.ispkg and ".api." in found.name:
            module = importlib.import_module(found.name)
            yield found.name.rpartition(".")[2], module.sync_detailed


def choices(annotation):
    """Returns the types that an annotation allows."""
    inner = typing.get_args(annotation)
    return [each for one in inner for each in choices(one)] if inner and typing.get_origin(annotation) is not list else [annotation]


def model(annotation):
    """Returns the generated class that an annotation allows."""
    return next(each for each in choices(annotation) if hasattr(each, "from_dict"))


def fitting(annotation, value):
    """Puts a value into a list if only a list is allowed."""
    kinds = [typing.get_origin(each) or each for each in choices(annotation)]
    return [value] if list in kinds and type(value) not in kinds else value
