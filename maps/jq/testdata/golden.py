#!/usr/bin/env python3
"""Writes golden.jsonl: what jq itself makes of programs and inputs. Run in this folder.

It needs the package jq of PyPI, which holds the C library of jq; the file in the repository was made with 1.13.0. Each line:
program, input, the outputs, and whether jq ended with an error after those. No input has numbers beyond 17 digits, which
Python would round, and members of objects are in ascending order, which gojq does not keep.
"""
import json

import jq

PROGRAMS = [
    ".", ".a", ".a.b.c", ".a?", ".[]", ".[]?", ".[0]", ".[-1]", ".[1:]", ".. | numbers", "keys", "length", "type", "tojson", "tostring", "empty", "., .",
    "{a, n: .b}", "{(.a | tostring): 1}", "[.[]? | select(. != null)]", "map(.)?", "if .a then .b else .c end", ".a // \"none\"", "try error(\"x\") catch .", "error(\"x\")",
    "del(.a)", ".a |= . + 1", ".a = {x: 1}", "to_entries", "with_entries(.value |= tostring)", "paths", "add", "any", "flatten?", "sort?", "unique?", "group_by(.)?",
    "ascii_downcase?", "split(\",\")?", "test(\"a\")?", "sub(\"a\"; \"b\")?", "@base64?", "@text", "@json", "@csv?", "@html?", "@uri?", "explode?", "ltrimstr(\"a\")", "tonumber?", "floor?", "sqrt?",
    "reduce .[]? as $x (0; . + 1)", "[limit(2; .[]?)]", "first(.[]?)", "[range(3)]", "def f: . ; f", ". as {a: $x} | $x", "todate?", "fromdate?", "(.t | mktime?)", "gmtime?", "strptime(\"%Y-%m-%d\")?",
    "getpath([\"a\", \"b\"])?", "has(\"a\")?", "contains({a: 1})?", "inside([1, 2])?", "indices(1)?", "min?", "max?", "transpose?", "tostream", "\"\\(.)\"", ".[\"a\"]?", "recurse(.a?; . != null)", "input_line_number?",
    "env | type", "isnan?", "ascii?", "implode?", "splits(\",\")?", "not", ".a and .b", "1 / 0", ".a - .b", "walk(if type == \"string\" then ascii_upcase else . end)",
]
INPUTS = [
    "null", "true", "0", "-1", "1.5", "100", "12345678901", "0.1", "\"\"", "\"a,b\"", "\"A\\u00e9\\ud83d\\ude00\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u007f\\u0000\"", "\"2015-03-05T23:51:47Z\"", "\"2015-03-05\"", "1425599507",
    "[]", "[1,2,3]", "[3,1,2,1,null,\"a\"]", "[[1,2],[3]]", "[{\"a\":1},{\"a\":2,\"b\":null}]", "{}", "{\"a\":1,\"b\":2}", "{\"a\":{\"b\":{\"c\":[1,{\"d\":null}]}}}", "{\"a\":\"y\",\"b\":\"x\",\"c\":[true,false]}",
    "{\"a\":1,\"a\":2}", "{\"\\u0061\":\"<&>'\"}", "{\"a\":null}", "{\"a\":[1],\"b\":[2]}", "{\"a\":\"str\",\"t\":\"2015-03-05T23:51:47Z\"}", "{\"\":\"\"}", "{\"Z\":2,\"z\":1,\"\\u00e9\":3}", " [ 1 , 2 ] ",
]
# Programs that are closed here, or of which the README of gojq says that they differ,
# and leaf_paths, which gojq has no more.
SKIP = {"input_line_number?", "env | type"}

with open("golden.jsonl", "w") as out:
    for program in PROGRAMS:
        if program in SKIP:
            continue
        for text in INPUTS:
            outputs, error = [], False
            try:
                for value in jq.compile(program).input_text(text):
                    outputs.append(json.dumps(value, separators=(",", ":")))
            except ValueError:
                error = True
            out.write(json.dumps({"program": program, "input": text, "outputs": outputs, "error": error}) + "\n")
