"""The report: figures as SVG and one page that holds everything."""
