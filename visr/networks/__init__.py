"""Parameters: torsos read observations; successor.py holds phi and psi."""
