"""The OpenAI Responses protocol, in both roles.

As a server: `parse_request` (parse*), `ResponseWriter` and `render` (writer). As a client: `build_request` (build*),
`ResponseReader` and `read_reply` (reader). `schema` has the shapes of the JSON, `errors` both sides of error responses.
"""
