"""The explorer: a local web page with controls for a deployment and its numbers.

``roofline explore`` starts it.  The query string contains the whole state and is read by the command-line parser:

=============  ======================================================================================================
`state`        query string -> deployment and load, names from the lists only
`numbers`      deployment and load -> the numbers of the page, as plain JSON types
`pictures`     the same -> SVG
`snippets`     the same -> the commands and the Python code that give those numbers
`server`       all of them over HTTP, on the loopback interface only
``page/``      HTML, CSS and JavaScript
=============  ======================================================================================================
"""
