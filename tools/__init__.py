"""What the project is built with: the site of the documents."""
