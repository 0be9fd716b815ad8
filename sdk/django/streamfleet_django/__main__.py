"""``python -m streamfleet_django``: the program of a pool. It sets Django up once, and then runs tasks for a worker.

DJANGO_SETTINGS_MODULE names the settings. Standard output is taken before Django is imported, so what applications print while
they are loaded does no harm.
"""

from streamfleet import _worker


def main() -> None:
    _worker._Channel.claim()
    import django

    django.setup()
    from .handler import run

    run()


if __name__ == "__main__":
    main()
