"""Asks by python3-zeep or python3-requests: ask.py zeep|requests URL NAME PASSWORD STATEMENT CATALOG INFO

Prints one line of JSON for each answer: what was asked, Cache-Status, and the text.
"""

import json
import os
import re
import sys
from xml.sax.saxutils import escape

import requests

XMLA = "urn:schemas-microsoft-com:xml-analysis"
SOAP = "http://schemas.xmlsoap.org/soap/envelope/"
library, url, name, password, statement, catalog, info = sys.argv[1:]
http = requests.Session()
# Both write letters beyond ASCII in ISO-8859-1.
http.auth = (name, password)
PROPERTIES = {"DataSourceInfo": info, "Catalog": catalog, "Format": "Multidimensional"}


def told(what, answer):
    status = answer.headers.get("Cache-Status")
    print(json.dumps({"what": what, "cacheStatus": status, "text": answer.text}))
    found = re.search('SessionId="([^"]+)"', answer.text)
    return found and found.group(1)


def block(kind, session=None):
    named = "" if session is None else f' SessionId="{session}"'
    return f'<{kind} xmlns="{XMLA}"{named} mustUnderstand="1"/>'


if library == "zeep":
    from lxml import etree
    from zeep import Client, Settings
    from zeep.transports import Transport

    wsdl = os.path.join(os.path.dirname(__file__), "xmla.wsdl")
    client = Client(wsdl, transport=Transport(session=http), settings=Settings(raw_response=True))
    service = client.create_service(f"{{{XMLA}}}Xmla", url)
    listed = [etree.Element(f"{{{XMLA}}}{key}") for key in PROPERTIES]
    for element, value in zip(listed, PROPERTIES.values()):
        element.text = value

    def discover(kind):
        # What is None may be nil.
        return service.Discover(RequestType=kind, Restrictions=None, Properties=None)

    def execute(text, header=None, properties=True):
        headers = [etree.fromstring(header)] if header else None
        filled = {"PropertyList": {"_value_1": listed}} if properties else None
        return service.Execute({"Statement": text}, filled, _soapheaders=headers)

else:

    def post(method, content, header=""):
        body = (
            f'<?xml version="1.0" encoding="UTF-8"?><s:Envelope xmlns:s="{SOAP}"><s:Header>{header}</s:Header>'
            f'<s:Body><{method} xmlns="{XMLA}">{content}</{method}></s:Body></s:Envelope>'
        )
        headers = {"Content-Type": "text/xml", "SOAPAction": f'"{XMLA}:{method}"'}
        return http.post(url, data=body.encode(), headers=headers)

    def discover(kind):
        return post("Discover", f"<RequestType>{kind}</RequestType><Restrictions/><Properties/>")

    def execute(text, header="", properties=True):
        listed = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in PROPERTIES.items())
        filled = f"<PropertyList>{listed}</PropertyList>" if properties else ""
        command = f"<Command><Statement>{escape(text)}</Statement></Command>"
        return post("Execute", f"{command}<Properties>{filled}</Properties>", header)


told("discover", discover("MDSCHEMA_CUBES"))
told("execute", execute(statement))
session = told("begin", execute("", block("BeginSession"), False))
told("in session", execute(statement, block("Session", session)))
told("end", execute("", block("EndSession", session), False))
