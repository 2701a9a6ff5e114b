"""The one exception that is meant for the user's eyes."""


class UserError(Exception):
    """Something the user can mend: one sentence that names the offending value and the way out.

    The command line prints it on stderr and exits with code 2; Python code sees an ordinary exception.
    """
