"""The description of the API: whether it is valid OpenAPI 3.1, and whether answers are as it says."""

from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

ADDRESS = "urn:streamfleet:openapi"
METHODS = ("get", "put", "post", "patch", "delete")
# What the API must have, whatever else it has.
NEEDED = {
    ("get", "/api/v1/queues"),
    ("get", "/api/v1/queues/{queue}"),
    ("get", "/api/v1/queues/{queue}/types"),
    ("get", "/api/v1/queues/{queue}/stats"),
    ("get", "/api/v1/queues/{queue}/stats/types"),
    ("get", "/api/v1/queues/{queue}/stats/durations"),
    ("delete", "/api/v1/queues/{queue}"),
    ("post", "/api/v1/queues/{queue}/purge"),
    ("post", "/api/v1/queues/{queue}/pause"),
    ("post", "/api/v1/queues/{queue}/resume"),
    ("post", "/api/v1/queues/{queue}/jobs"),
    ("get", "/api/v1/jobs"),
    ("get", "/api/v1/queues/{queue}/jobs"),
    ("get", "/api/v1/queues/{queue}/delayed"),
    ("get", "/api/v1/queues/{queue}/jobs/{id}"),
    ("patch", "/api/v1/queues/{queue}/jobs/{id}"),
    ("get", "/api/v1/queues/{queue}/jobs/{id}/payload"),
    ("get", "/api/v1/queues/{queue}/jobs/{id}/result"),
    ("post", "/api/v1/queues/{queue}/jobs/{id}/cancel"),
    ("post", "/api/v1/queues/{queue}/jobs/{id}/run-now"),
    ("get", "/api/v1/queues/{queue}/jobs/{id}/steps"),
    ("post", "/api/v1/queues/{queue}/jobs/{id}/steps/{step}/decide"),
    ("post", "/api/v1/queues/{queue}/bulk/cancel"),
    ("post", "/api/v1/queues/{queue}/bulk/run-now"),
    ("post", "/api/v1/queues/{queue}/bulk/move"),
    ("get", "/api/v1/queues/{queue}/dead"),
    ("get", "/api/v1/queues/{queue}/dead/groups"),
    ("get", "/api/v1/queues/{queue}/dead/{letter}"),
    ("patch", "/api/v1/queues/{queue}/dead/{letter}"),
    ("post", "/api/v1/queues/{queue}/dead/{letter}/replay"),
    ("post", "/api/v1/queues/{queue}/dead/{letter}/drop"),
    ("post", "/api/v1/queues/{queue}/bulk/replay"),
    ("post", "/api/v1/queues/{queue}/bulk/drop"),
    ("get", "/api/v1/queues/{queue}/tasks"),
    ("get", "/api/v1/queues/{queue}/tasks/{task}"),
    ("post", "/api/v1/queues/{queue}/tasks/{task}/pause"),
    ("post", "/api/v1/queues/{queue}/tasks/{task}/resume"),
    ("post", "/api/v1/queues/{queue}/tasks/{task}/stop"),
    ("post", "/api/v1/queues/{queue}/tasks/{task}/undo"),
    ("get", "/api/v1/queues/{queue}/gates"),
    ("put", "/api/v1/queues/{queue}/gates/{gate}"),
    ("delete", "/api/v1/queues/{queue}/gates/{gate}"),
    ("get", "/api/v1/queues/{queue}/cron"),
    ("put", "/api/v1/queues/{queue}/cron/{name}"),
    ("delete", "/api/v1/queues/{queue}/cron/{name}"),
    ("post", "/api/v1/queues/{queue}/cron/{name}/run"),
    ("get", "/api/v1/incidents"),
    ("post", "/api/v1/incidents/{incident}/ack"),
    ("post", "/api/v1/alerts/sinks/{sink}/test"),
    ("get", "/api/v1/workers"),
    ("get", "/api/v1/session"),
    ("get", "/api/v1/events"),
    ("get", "/api/v1/queues/{queue}/events"),
    ("get", "/api/v1/queues/{queue}/batches/{batch}"),
    ("get", "/healthz"),
    ("get", "/api/v1/queues/{queue}/audit"),
    ("get", "/api/v1/session"),
    ("post", "/api/v1/session"),
    ("delete", "/api/v1/session"),
    ("get", "/api/v1/live"),
    ("get", "/api/v1/needs"),
    ("get", "/api/v1/suggestions"),
    ("get", "/api/v1/jobs/{id}"),
    ("get", "/api/v1/dead/groups"),
    ("get", "/api/v1/decisions"),
    ("get", "/api/v1/tasks"),
    ("get", "/api/v1/gates"),
    ("get", "/api/v1/cron"),
    ("get", "/api/v1/stats"),
    ("get", "/api/v1/servers"),
    ("get", "/api/v1/alerts"),
    ("get", "/api/v1/incidents/{incident}"),
    ("get", "/api/v1/queues/{queue}/dead/groups/{group}"),
    ("get", "/api/v1/queues/{queue}/dead/deaths"),
    ("get", "/api/v1/queues/{queue}/cron/{name}/ticks"),
    ("get", "/api/v1/queues/{queue}/jobs/{id}/prospects"),
}


class Document:
    """The description, as the console sent it."""

    def __init__(self, content):
        self.content = content
        self.registry = Registry().with_resource(ADDRESS, Resource.from_contents(content, default_specification=DRAFT202012))

    def operations(self):
        """Yields every operation with its method and path."""
        for path, item in self.content["paths"].items():
            for method in METHODS:
                if method in item:
                    yield method, path, item[method]

    def invalid(self):
        """Yields what is not valid OpenAPI 3.1."""
        version = str(self.content.get("openapi", "none"))
        if not version.startswith("3.1."):
            yield f"its version is {version}, not 3.1"
        for error in OpenAPIV31SpecValidator(self.content).iter_errors():
            yield f"{'/'.join(map(str, error.absolute_path))}: {error.message[-300:]}"

    def lacking(self):
        """Yields operations that it must have and does not have, and names of operations that two of them have."""
        have = {(method, path) for method, path, _ in self.operations()}
        for method, path in sorted(NEEDED - have):
            yield f"there is no {method.upper()} {path}"
        names = [operation.get("operationId") for _, _, operation in self.operations()]
        for name in sorted({str(name) for name in names if names.count(name) > 1}):
            yield f"several operations have the name {name}"

    def unfaithful(self, method, path, status, media_type, value):
        """Yields how an answer in JSON differs from what the description says."""
        responses = self.content["paths"][path][method]["responses"]
        known = next((each for each in (str(status), f"{status // 100}XX", "default") if each in responses), None)
        if known is None:
            yield f"{method.upper()} {path}: the status {status} is not described"
            return
        response = resolved(self.content, responses[known])
        if media_type not in response.get("content", {}):
            yield f"{method.upper()} {path}: {status}: {media_type} is not described"
            return
        schema = response["content"][media_type].get("schema")
        if schema is None:
            return
        # References within the schema are relative to the whole description.
        schema = {"$id": ADDRESS, "components": self.content.get("components", {}), **schema}
        for error in OAS31Validator(schema, registry=self.registry).iter_errors(value):
            place = "/".join(map(str, error.absolute_path))
            yield f"{method.upper()} {path}: {status}: /{place}: {error.message[-300:]}"


def resolved(content, found):
    """Follows a reference within the description."""
    while "$ref" in found:
        target = content
        for part in found["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        found = target
    return found
