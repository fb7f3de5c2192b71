"""Collect from an engine that is running already: drive its profile endpoints and a load, and gather its traces.

Standard library and `tracekit.formats` alone. Requests go to the URL given and nowhere else: proxies of the
environment are not used and redirects are not followed.
"""
