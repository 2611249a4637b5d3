"""The explorer: a page on this machine alone, where controls change a deployment and the numbers follow.

``roofline explore`` starts it.  The query string is the whole state, and the parser of the command line reads it:

=============  ======================================================================================================
`state`        query string -> deployment and load, names from the lists only
`numbers`      deployment and load -> the numbers of the page, as plain JSON types
`pictures`     the same -> SVG
`snippets`     the same -> the commands and the Python code that give those numbers
`server`       the four of them over HTTP, to this machine alone
``page/``      HTML, CSS and JavaScript
=============  ======================================================================================================
"""
