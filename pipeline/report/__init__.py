"""`groundrows report`: a run as one web page that needs no network.

`read.py` makes narrow tables of the Avro files, `figures.py` and its neighbours ask them questions,
`plots.py` draws what they say, and `page.py` puts all of it into the template in `page/`.
"""
