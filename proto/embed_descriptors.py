#!/usr/bin/env python3
"""embed_descriptors.py PROTOC-C FOLDER OUTPUT.c NAME...: the descriptors of these wire descriptions as C.

Server reflection answers with them. Only the names are taken out of them here (descriptor.proto:
fields 1 of a file, a message, an enum, a service and a method are their names)."""
import pathlib
import subprocess
import sys
import tempfile

PACKAGE, MESSAGES, ENUMS, SERVICES = 2, 4, 5, 6  # of a file
NESTED_MESSAGES, NESTED_ENUMS = 3, 4  # of a message
METHODS = 2  # of a service


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """[(number, value)]; what is neither bytes nor a number is not in descriptors."""
    at, found = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            found.append((tag >> 3, data[at : at + value]))
            at += value
        else:
            found.append((tag >> 3, value))
    return found


def name_of(data):
    return next(value for number, value in fields(data) if number == 1).decode()


def message_names(prefix, data):
    own = prefix + name_of(data)
    names = [own]
    for number, value in fields(data):
        if number == NESTED_MESSAGES:
            names += message_names(own + ".", value)
        elif number == NESTED_ENUMS:
            names.append(own + "." + name_of(value))
    return names


def names_of_file(data):
    """(names of services, all other names)"""
    package = next((value.decode() for number, value in fields(data) if number == PACKAGE), "")
    prefix = package + "." if package else ""
    services, others = [], []
    for number, value in fields(data):
        if number == MESSAGES:
            others += message_names(prefix, value)
        elif number == ENUMS:
            others.append(prefix + name_of(value))
        elif number == SERVICES:
            services.append(prefix + name_of(value))
            others += [f"{services[-1]}.{name_of(method)}" for n, method in fields(value) if n == METHODS]
    return services, others


def text_list(name, texts):
    lines = "".join(f'    "{text}",\n' for text in texts)
    return f"const char *const {name}[] = {{\n{lines}    NULL,\n}};\n"


def main():
    protoc, folder, output, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "set"
        sources = [f"{folder}/{name}.proto" for name in names]
        subprocess.run([protoc, f"--proto_path={folder}", f"--descriptor_set_out={path}", *sources], check=True)
        files = [value for number, value in fields(path.read_bytes()) if number == 1]
    parts = ['#include "proto/descriptors.h"\n\n']
    services, others = [], []
    for index, data in enumerate(files):
        numbers = ",".join(str(byte) for byte in data)
        parts.append(f"static const unsigned char file_{index}[] = {{{numbers}}};\n")
        of_file = names_of_file(data)
        services += of_file[0]
        others += of_file[1]
    rows = "".join(
        f'    {{"{name_of(data)}", file_{index}, sizeof file_{index}}},\n' for index, data in enumerate(files)
    )
    parts.append(f"const struct descriptor_file descriptor_files[] = {{\n{rows}}};\n")
    parts.append(f"const size_t descriptor_n_files = {len(files)};\n")
    parts.append(text_list("descriptor_services", services))
    parts.append(text_list("descriptor_names", others))
    pathlib.Path(output).write_text("".join(parts), encoding="utf-8")


main()
