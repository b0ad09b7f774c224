"""What is suggested to a person before a task (memory design §7.4)."""

from typing import Final

from memfin.contracts.memory import ProfileConsent, Route, UserContext
from memfin.memory import skills
from memfin.memory.ids import check_id
from memfin.memory.operations.reading import ReadingOperations
from memfin.memory.records import RecordDamaged, load
from memfin.memory.slices import assemble, plan_reads
from memfin.memory.tasks import is_expired

_LOOKED_AT: Final = 30
"""How many of the last tasks are looked at, however many a person has had in a day."""


class SuggestionOperations(ReadingOperations):
    """What pages suggest: nothing of it depends on anything but consent, tasks and preferences."""

    def suggestions(self, user_id: str) -> skills.Suggestions:
        """Return the kinds of task done last, an example question, and what threads are refreshed on.

        Tasks are known for 24 hours and under the consent in force alone. Without one, the answer is that
        of a person of whom nothing was ever known.

        Raises:
            InvalidId: it is no id.
        """
        check_id(user_id)

        def read(consent: ProfileConsent | None) -> skills.Suggestions:
            plan = plan_reads("snapshot", None if consent is None else consent.scopes, prompt="")
            with self.faults():
                memory = assemble(plan, self._material(user_id, plan, consent), None)
                used = [] if consent is None else self._routes_used(user_id, consent)
            return skills.suggestions(used, memory)

        return self.consistently(user_id, read)

    def _routes_used(self, user_id: str, consent: ProfileConsent) -> list[Route]:
        """Return the routes of a person's last tasks, the latest first."""
        directory = self.paths.tasks(user_id)
        now = self.now()
        found: list[UserContext] = []
        # Ids begin with their moment, in a form that sorts as time goes.
        for name in self.files.names(directory)[-_LOOKED_AT:]:
            try:
                context = load(self.files, directory / f"{name}.json", UserContext)
            except RecordDamaged:
                continue
            if context is not None and context.user_id == user_id and not is_expired(context.expires_at, now):
                found.append(context)
        found.sort(key=lambda each: (each.created_at, each.context_id), reverse=True)
        return [each.route for each in found if each.route and each.created_at >= consent.granted_at]
